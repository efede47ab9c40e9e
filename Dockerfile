# The server, over HTTP: docs/docker.md says how to run it.
FROM node:24.18.0-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml uv.lock hatch_build.py README.md LICENSE ./
COPY src src
ENV UV_PYTHON=/usr/bin/python3
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# What `make setup` and `make test` do: the wheel, and beside it exactly what uv.lock says.
RUN python3 -m venv .venv \
    && .venv/bin/python -m pip install --quiet --disable-pip-version-check uv
RUN .venv/bin/uv build --quiet --wheel --out-dir dist
RUN UV_PROJECT_ENVIRONMENT=/opt/paddock .venv/bin/uv sync --frozen --quiet --all-extras --no-extra ray --no-install-project --no-dev \
    && .venv/bin/uv pip install --quiet --python /opt/paddock --no-deps --reinstall dist/*.whl

# With Node.js and npx, for most servers of a `.mcp.json` are started with it.
# Docker denies the namespaces that bubblewrap makes; gVisor has them, and no Landlock.
FROM node:24.18.0-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/paddock /opt/paddock
ENV PATH=$PATH:/opt/paddock/bin
# Further languages of programs, under the names that docs/runtimes.md has for them.
ARG RUNTIMES=""
# hadolint ignore=SC2086
RUN [ -z "${RUNTIMES}" ] || paddock runtimes install --yes ${RUNTIMES} \
    && rm -rf /var/lib/apt/lists/* /root/.npm
ENV HOME=/state XDG_STATE_HOME=/state XDG_CACHE_HOME=/state/cache
RUN install --directory --owner=10001 --group=10001 --mode=0700 /state \
    && install --directory --owner=10001 --group=10001 /workspace
USER 10001:10001
WORKDIR /workspace
VOLUME ["/state"]
EXPOSE 8700
# Without the token it answers 401, and that it does so says that it is there.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["/opt/paddock/bin/python", "-c", "\
import http.client; there = http.client.HTTPConnection('127.0.0.1', 8700, timeout=4); \
there.request('GET', '/livez'); raise SystemExit(there.getresponse().status != 200)"]
ENTRYPOINT ["paddock"]
CMD ["serve", "mcp", "--http", "0.0.0.0:8700", "--allowed-host", "127.0.0.1", "--allowed-host", "localhost"]
