"""A table of CEL expressions: a real API server has the outcomes that the file says.

`tests/local/apiserver/cel` compares the embedded one with the same file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .expressions import FILE, outcomes
from .servers import serve_pair

if TYPE_CHECKING:
    from pathlib import Path


async def test_expressions(kubeconfig: Path) -> None:
    table = json.loads(FILE.read_text())
    async with serve_pair(kubeconfig) as pair:
        assert await outcomes(pair.real, table) == table["rules"]
        assert await outcomes(pair.embedded, table) == table["rules"]
