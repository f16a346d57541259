"""`python -m dpone_packbuilder` is `dpone`."""

from dpone_packbuilder.cli import main

if __name__ == "__main__":
    main()
