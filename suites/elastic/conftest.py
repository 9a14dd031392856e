"""One embedded cluster for all training of this suite.

What a user does: `traincrew up`, then kubectl. PyTorch is large, so its environment comes from the
cache of this machine (`TRAINCREW_CACHE`), where the first run puts it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from suites.elastic.jobs import IMAGE, User

from traincrew.local.directories import default_cache

CATALOG = Path(__file__).with_name("environments.yaml")


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Someone with a cluster of two nodes, each of which says that it has two GPUs."""
    user = User(tmp_path_factory.mktemp("home"), default_cache(), "elasticjob,pod,event")
    images = f"--images={CATALOG}"
    user.traincrew("images", "pull", images, IMAGE)
    user.traincrew("up", "--nodes=2", "--gpus=4", images, f"--kubeconfig={user.kubeconfig}")
    yield user
    log = user.log()
    user.traincrew("down")
    assert "Traceback" not in log, log
