"""What people read about a container that failed."""

import pytest

from traincrew.plan.pods import last_words

TORCHRUN = """\
  File "train.py", line 2, in train
ValueError: shapes (3, 4) and (5,) do not match
E1122 09:42:39.669000 1 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1)
Traceback (most recent call last):
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
  exitcode  : 1 (pid: 26)
============================================================
"""

EPILOGUE = """\
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpiexec detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[51546,1],0]
  Exit code:    1
--------------------------------------------------------------------------
"""
MPIEXEC = """\
Traceback (most recent call last):
chainer.utils.type_check.InvalidType: see above
cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 4096 bytes
"""


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("boom", "boom"),
        ("boom\n", "boom"),
        ("no data at /data\nmount the volume", "no data at /data mount the volume"),
        (TORCHRUN, "ValueError: shapes (3, 4) and (5,) do not match"),
        (
            MPIEXEC + EPILOGUE,
            "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 4096 bytes",
        ),
        (f"training\nno data in /data\n{EPILOGUE}", "training no data in /data"),
        ("[1,0]<stderr>:ValueError: no\n[1,1]<stdout>: bye", "[1,0]<stderr>:ValueError: no"),
        ("[rank1]: KeyError: 'x'\nfailed", "[rank1]: KeyError: 'x'"),
        ("epoch 1\nepoch 2\nepoch 3\n-----\nKilled\n\n", "epoch 2 epoch 3 Killed"),
        ("LR: 0.1\nError: 3 files missing", "LR: 0.1 Error: 3 files missing"),
        ("=====\n", ""),
        ("Error on reading termination message from logs: failed to try resolving symlinks", ""),
        ("Error on reading termination log /var/lib/kubelet/pods/x: permission denied", ""),
    ],
)
def test_last_words(message: str, shown: str) -> None:
    assert last_words(message) == shown


def test_nothing_but_the_epilogue_of_mpiexec() -> None:
    assert last_words(EPILOGUE).endswith("Process name: [[51546,1],0] Exit code:    1")
