"""Which method for these data: methods run side by side within a budget, judged with and without truth."""

from fedkin.studies.compare.compare import Options, compared
from fedkin.studies.compare.comparison import Comparison, ComparisonRow
from fedkin.studies.compare.question import Question, question_of

__all__ = ["Comparison", "ComparisonRow", "Options", "Question", "compared", "question_of"]
