"""CCFC and SCFC: federated contrastive learning of representations, which are clustered."""
