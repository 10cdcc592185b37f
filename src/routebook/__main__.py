"""``python -m routebook`` is the program ``routebook``."""

from routebook.cli.main import main

if __name__ == "__main__":
    main()
