"""Bytes on sockets: transports that send files, frames in order, one connection to a broker."""
