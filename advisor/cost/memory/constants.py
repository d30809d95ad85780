"""Sizes that papers state."""

from __future__ import annotations

from typing import Final

#: Bytes a frozen weight takes when quantized to 4 bits in blocks: nf4 with double quantization adds 0.127 bits (Dettmers et al. 2023).
NF4_BYTES: Final = 0.516
