"""tidegate beside other gateways, in one run: the modules of `compare.py`."""
