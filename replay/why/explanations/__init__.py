"""One module per kind of question. Each returns the first line, which is the answer, and the facts
that led to it; `explanation` chooses the module."""
