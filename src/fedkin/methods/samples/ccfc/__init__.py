"""CCFC and SCFC: clusters of representations that clients learn together by contrast."""
