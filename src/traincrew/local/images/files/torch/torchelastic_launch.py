"""``python -m torchelastic.distributed.launch``: PyTorch's own launcher, with the old defaults."""

import sys

from torch.distributed.run import main

# Workers used to be started again three times; torchrun does not do so unless it is told to.
RESTARTS = "--max_restarts=3"

if __name__ == "__main__":
    main([RESTARTS, *sys.argv[1:]])
