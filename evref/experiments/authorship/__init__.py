"""Authorship attribution: texts → excerpts → counts and word adjacency networks → table II."""

from __future__ import annotations

from .corpus import Corpus, load_corpus, save_corpus
from .prepare import prepare_corpus
from .task import Authorship

__all__ = ["Authorship", "Corpus", "load_corpus", "prepare_corpus", "save_corpus"]
