"""FedDP-KMeans: differentially private k-means, initialised with samples of the server."""
