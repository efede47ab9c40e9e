"""Check the types of a program against the tools that it names, before its first call.

`check` is the heart: a program's text, the tools of its servers, findings. In order: `declarations` writes the tools
as TypeScript for the compiler, `compiler` runs it confined, `findings` keeps what a model can act on. `installation`
says where the compiler is. `globals.d.ts` declares what programs have besides ECMAScript. Nothing here decides: a
finding refuses a program, or warns, as `gate/type_check.py` says.
"""
