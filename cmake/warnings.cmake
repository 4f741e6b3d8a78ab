add_library(vestige_warnings INTERFACE)
target_compile_options(vestige_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)
