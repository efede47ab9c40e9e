"""The rest of the driver of Python sessions, for IPython's shell: it follows the text of `python.py` in one file."""

_INSTALLERS = ("pip", "pip3", "conda", "mamba", "micromamba", "uv")


class _IPythonDriver(_Driver):
    def __init__(self):
        super().__init__()
        if PathFinder.find_spec("IPython") is None:
            self.send({"lacks": True})
            os._exit(1)
        del sys.meta_path[0].hooks["IPython.display"]
        self.shell = _make_shell(self)
        self.loop = importlib.import_module("IPython.core.async_helpers").get_asyncio_loop()
        builtins.get_ipython = lambda: self.shell

    def carry_out(self, code, name):
        self.shell.execution_count = int(name[len("In [") : -1])
        result = self.shell.run_cell(code, store_history=True)
        self.told = result.error_before_exec or result.error_in_exec
        if self.told is not None:
            raise self.told
        self.begin_tasks()

    def find_loop(self):
        return self.loop

    def explain(self, error):
        end = super().explain(error)
        end["error"]["message"] = re.sub(r"<ipython-input-(\d+)-\w+>", r"In [\1]", end["error"]["message"])
        return end


def _define_shell(driver):
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type

    class Hook(DisplayHook):
        def write_output_prompt(self):
            """Print no prompt."""

        def write_format_data(self, format_dict, md_dict=None):
            driver.show(format_dict)

        def finish_displayhook(self):
            """Print no empty line."""

    class Publisher(DisplayPublisher):
        def publish(self, data, *_args, **_options):
            driver.show({"text/plain": "", **data})

        def clear_output(self, *_):
            """Keep the output."""

    class Shell(InteractiveShell):
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)

        def ask_exit(self):
            raise SystemExit

        def enable_matplotlib(self, gui=None):
            return "agg", "agg"  # figures are shown anyway

        def showtraceback(self, *args, **options):
            if not isinstance(sys.exc_info()[1], SystemExit):
                super().showtraceback(*args, **options)

        def _showtraceback(self, etype, evalue, stb):
            sys.stderr.write(self.InteractiveTB.stb2text(stb) + "\n")

        def system(self, cmd):
            sys.stdout.flush()
            command = self.var_expand(cmd, depth=1)
            if command.split()[:1] and command.split()[0] in _INSTALLERS:
                _refuse_installation(command)
            self.system_raw(command)

    return Shell


def _refuse_installation(line):
    """Name the way to packages, which are installed before a session starts, where policy allows it."""
    from IPython.core.error import UsageError

    raise UsageError(
        "a running session gets no packages: " + _advise(line if " install" in line else "pip " + line)
    )


def _make_shell(driver):
    import warnings

    from traitlets.config import Config

    warnings.filterwarnings("ignore", "To exit: use")
    shell = _define_shell(driver).instance(
        ipython_dir=os.path.join(os.environ["TMPDIR"], ".ipython"),
        user_module=driver.main,
        user_ns=driver.names,
        config=Config(
            InteractiveShell={"colors": "nocolor", "display_page": True}, HistoryManager={"enabled": False}
        ),
    )
    for name in _INSTALLERS:
        shell.register_magic_function(_refuse_installation, "line", name)
    return shell
