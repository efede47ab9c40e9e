"""The proxy of one job: the only way from its network namespace to the hosts that policy granted.

A broker outside of the job's network carries out connect(2) on a copy of the job's socket; a socket keeps its network
(`sandbox/child/socket_broker`). No byte of the connection passes it. The listening socket was made by the shim
(`loopback`), and came here by supervisor, `sandbox/process` (`Streams.on_proxy_socket`) and `gate/host_access`
(`HostTurn.serve`).

    job                               Paddock
    HTTPS_PROXY=127.0.0.1:PORT  --->  proxy      accepts on the listening socket of the job; the first byte tells
                                        http_proxy CONNECT, and absolute-form HTTP/1.1, or
                                        socks      SOCKS5
                                        connector  decides on host and port (`decide_host` of policy, handed in by
                                                   `gate/host_access`), counts and reports; `dial` resolves the name
                                                   once, checks the addresses, and connects to one
                                        tunnel     compares the name in a TLS ClientHello with the granted one, then
                                                   copies bytes; where a rule looks at requests, `tls`
                                                   opens them for http_proxy

Every byte of the job is hostile. A name is read once, in `model/host_names`, and everything after that uses what was
read: the decision, the resolver, the Host header, the comparison with the server name of TLS. Requests of plain HTTP
are parsed and written anew, so that two parsers cannot disagree about what was forwarded.

`proxy` is the heart. `http_proxy` and `socks` are its two protocols (with `heads`), `connector` asks and counts, `dial`
connects, `tunnel` copies with `client_hello`; `tls` and `certificates` open TLS where a rule needs it; `streams`
carries bytes. `environment` leads programs to the proxy, Node.js by `node_proxy.mjs`. Paddock's own connections follow
the same rules: `outer_proxy` reads the proxy of its environment, `http_transport` has the clients for servers,
webhooks, logins and the registry.
"""
