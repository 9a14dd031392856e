"""Regular expressions that clients choose."""

import pytest

from traincrew.local.apiserver.values.regex import RegexError, StoredPattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("(a", "missing closing ): `(a`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a" * 20_001, "expression too large"),
    ],
)
def test_what_re2_refuses_is_refused_in_the_words_of_go(pattern: str, message: str) -> None:
    with pytest.raises(RegexError) as raised:
        compile_pattern(pattern)
    assert str(raised.value) == f"error parsing regexp: {message}"


def test_a_search_is_anywhere_in_the_text() -> None:
    pattern = compile_pattern("l+")
    assert pattern.search("hello")
    assert not pattern.search("hero")
    assert list(pattern.find("hello world")) == ["ll", "l"]


def test_a_search_that_may_take_too_many_steps_is_not_allowed() -> None:
    pattern = compile_pattern("(a|b)*a(a|b){400}c")
    assert pattern.allows("ab" * 5_000)
    assert not pattern.allows("ab" * 50_000)


def test_a_stored_pattern_of_another_syntax_is_ignored() -> None:
    assert StoredPattern("(?=a)").compiled is None
