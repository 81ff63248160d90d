"""Comparison of methods on a user's data: runs within a time budget, scored with and without truth, one recommended."""

from fedkin.studies.compare.compare import Options, compared
from fedkin.studies.compare.comparison import Comparison, ComparisonRow
from fedkin.studies.compare.question import Question, question_of

__all__ = ["Comparison", "ComparisonRow", "Options", "Question", "compared", "question_of"]
