"""How errors show a place in the user's file, and what the error classes carry."""

import pickle

from tilewright.diagnostics import BadAccess, Location, OutOfBoundsError, render, source_excerpt


def test_carets_stand_under_the_range():
    at = Location("f.py", 3, 4, 3, 9, "k")
    assert source_excerpt(at, "x = load(p)") == "    x = load(p)\n        ^^^^^"
    assert source_excerpt(at, "\tx\t=") == "    \tx\t=\n    \t \t ^" and source_excerpt(at, "") == ""
    assert source_excerpt(Location("f.py", 3, 0, 3, 2), "漢 = 1").endswith("^^^"), "wide characters take two columns"


def test_an_error_names_the_chain_of_calls():
    inner = Location("f.py", 3, 0, 3, 1, "helper").called_from(Location("f.py", 9, 2, 9, 3, "k"))
    text = render("bad", inner, "y")
    assert text.index("f.py:3:1 in helper") < text.index("bad") < text.index("called from f.py:9:3 in k")
    assert render("bad", None) == "bad"


def test_an_access_out_of_bounds_counts_elements_from_the_pointer():
    bad = BadAccess("load", "x", 4, 1000 + 4 * 7, 1000, 1000 - 12, 1000 + 8)
    assert (bad.index, bad.elements) == (7, range(-3, 2))
    assert str(bad) == "load out of bounds: element 7 of 'x', whose elements -3 to 1 are in bounds"
    far = BadAccess("store", "x", 4, 2**64 - 3, 1001, 1001, 1001)
    assert far.index == -251 and str(far).endswith("element -251 of 'x', which has no element")
    assert "element 1 + 2 bytes of" in str(BadAccess("load", "x", 4, 1006, 1000, 1000, 1008))
    error = OutOfBoundsError(bad, "k", (1, 2, 3), None)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.program == (1, 2, 3) and isinstance(again, IndexError)
