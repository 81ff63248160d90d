"""Conversion of data that users pass as clients, in any form, to what `fedkin.data.reading` reads."""
