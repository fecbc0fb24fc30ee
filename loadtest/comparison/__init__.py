"""tidegate beside other gateways, in one run: what `compare.py` is made of."""
