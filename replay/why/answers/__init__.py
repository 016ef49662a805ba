"""One module a kind of question. Each gives the first line, which answers, and the facts that led
to it; `answer` chooses."""
