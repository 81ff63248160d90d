"""fedkin on a real federation: Flower carries the messages, and every site keeps its data, memory and results."""
