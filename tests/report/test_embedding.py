"""Data inside a page, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolkit.report._page import embedded

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_embedded_data_cannot_end_its_block_and_comes_back_as_it_was(value: Any) -> None:
    text = embedded(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()
    back = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    if "NaN" not in repr(value) and "nan" not in repr(value) and "inf" not in repr(value):
        assert back == value
