"""`triton.language.standard`."""

from tilewright.language.standard import *
