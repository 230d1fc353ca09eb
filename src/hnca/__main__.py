"""`python -m hnca`."""

from .cli import main

main()
