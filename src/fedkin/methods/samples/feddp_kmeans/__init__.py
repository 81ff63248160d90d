"""FedDP-KMeans: private k-means that begins at samples of the server."""
