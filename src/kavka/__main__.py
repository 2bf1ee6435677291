"""`python -m kavka` is `kavka`."""

import sys

from kavka.cli.main import main

sys.exit(main())
