"""What a user can put right, and the words for what went wrong."""


class UserError(Exception):
    """A wrong setting, missing data, a directory in use: something that its user can put right.

    The message is one line that says what is wrong and what to do; the command line prints it
    without a traceback."""


class UsageError(UserError):
    """A command line that cannot mean anything: an unknown flag, or a value that no flag can have.
    The command line exits with 2 for it, and with 1 for what cannot be done here and now."""


def first_line(error: BaseException) -> str:
    """What an error says, where there is room for one line."""
    return str(error).partition("\n")[0]
