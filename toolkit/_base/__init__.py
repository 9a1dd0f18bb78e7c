"""The floor under all rooms: what every room needs and no room owns.

    words       names, sizes and foreign text for people; did-you-mean
    files       write a file whole or not at all
    handles     reach files through directory handles
    locks       files that are held as long as a process lives
    processes   whether a process is still the one it was
    json_text   where values stand in a JSON text, and setting one of them
    lazy        load a package's public names on first use

Import from the module itself, as in `from toolkit._base.words import safe_name`. Nothing here imports a room.
"""
