"""Which method for these data: methods run side by side within a budget, judged with and without truth."""

from fedkin.comparison.compare import Options, compared
from fedkin.comparison.comparison import Comparison, Line
from fedkin.comparison.question import Question, question_of

__all__ = ["Comparison", "Line", "Options", "Question", "compared", "question_of"]
