#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""serve.py nova|placement PORT: serves the WSGI application of one of the two at 10.9.0.1, as a web server does in a real cloud."""
import socketserver, sys, wsgiref.simple_server

which, port = sys.argv[1], int(sys.argv[2])
sys.argv = [which]  # Both read the rest as options of their own.
if which == "nova":
    from nova.wsgi.osapi_compute import application
else:
    from placement.wsgi.api import application


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self):  # WSGIServer's own looks up the address's name.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address
        self.setup_environ()


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    def address_string(self):
        return self.client_address[0]


wsgiref.simple_server.make_server("10.9.0.1", port, application, Server, Handler).serve_forever()
