"""``python -m torchelastic.distributed.launch``: PyTorch's own launcher, with the old defaults."""

import sys

from torch.distributed.run import main

# The old default was three restarts of the workers; torchrun's default is none.
RESTARTS = "--max_restarts=3"

if __name__ == "__main__":
    main([RESTARTS, *sys.argv[1:]])
