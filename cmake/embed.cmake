# SPDX-License-Identifier: Apache-2.0
# Files as the text of a C array: cmake -DOUTPUT=... -DNAME=... -DINPUTS="a;b" -P embed.cmake
set(bytes "")
foreach(input IN LISTS INPUTS)
    file(READ "${input}" hex HEX)
    string(APPEND bytes "${hex}")
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}") # literals have the sign of char
string(REGEX REPLACE "(('.x..',)('.x..',)('.x..',)('.x..',)('.x..',)('.x..',)('.x..',)('.x..',))" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
