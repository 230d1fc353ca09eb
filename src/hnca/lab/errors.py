"""What a user can put right, and the words for what went wrong."""


class UserError(Exception):
    """A wrong setting, missing data, a directory in use: something that its user can put right.

    The message is one line that says what is wrong and what to do; the command line prints it
    without a traceback."""


def first_line(error: BaseException) -> str:
    """What an error says, where there is room for one line."""
    return str(error).partition("\n")[0]
