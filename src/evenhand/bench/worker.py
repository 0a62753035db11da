"""One of the processes that `evenhand bench --parts processes` times side by side."""

import sys

from evenhand.bench.measures import work

if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2] == "1")
