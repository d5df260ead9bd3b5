"""`python -m glassformer` is the command line, wherever the `glassformer` script is not on the path."""

from glassformer.cli.main import main

if __name__ == "__main__":
    main()
