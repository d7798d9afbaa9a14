"""Source made by ``python -m pullback codegen`` from the tables in ``ops/``."""
