"""What a user can put right."""


class UserError(Exception):
    """A wrong setting, missing data, a directory in use: something that its user can put right.

    The message is one line that says what is wrong and what to do; the command line prints it
    without a traceback."""
