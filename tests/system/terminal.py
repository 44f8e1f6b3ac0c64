#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# terminal.py ROWS COLUMNS STEP... -- COMMAND...: runs COMMAND on a terminal of that size, and takes the steps in turn:
#   see:REGEX   waits until what is drawn matches
#   save:FILE   saves what is drawn
#   type:KEYS   types
# Then waits for the end of the command. Fails with what was drawn if a screen is larger than the terminal, if a step takes a
# minute, or if the command fails or leaves the cursor hidden.
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

rows, columns = int(sys.argv[1]), int(sys.argv[2])
steps, command = sys.argv[3:sys.argv.index('--')], sys.argv[sys.argv.index('--') + 1:]
master, slave = pty.openpty()
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.environ.update(TERM='xterm', LC_ALL='C.UTF-8', NO_COLOR='1')
    os.execv(command[0], command)
os.close(slave)
data = b''


def fail(why):
    print(f'{why} at {rows} x {columns}: {command}\n{screen()}')
    os.kill(child, signal.SIGKILL)
    sys.exit(1)


def read():
    """Waits for output; False: there will be none."""
    global data
    try:
        if select.select([master], [], [], 1)[0]:
            data += os.read(master, 65536)
        return True
    except OSError:
        return False


def screens():
    """What was drawn: each screen begins at the top. The last one may be incomplete."""
    parts = data.split(b'\033[H')
    return [re.sub(r'\033\[[?0-9]*[A-Za-z]', '', p.decode(errors='replace')).replace('\r\n', '\n') for p in parts[1:] or parts]


def screen():
    whole = screens()
    return whole[-1] if len(whole) == 1 or data.rstrip().endswith(b'\033[J') else whole[-2]


def check():
    for s in screens() if b'\033[H' in data else []:
        lines = s.split('\n')
        if len(lines) > rows or max(map(len, lines)) > columns:
            fail(f'{len(lines)} lines of up to {max(map(len, lines))} columns')


for step in steps:
    what, argument = step.split(':', 1)
    if what == 'see':
        end = time.monotonic() + 60
        while not re.search(argument, screen(), re.MULTILINE):
            if time.monotonic() > end or not read():
                fail(f'{argument} is not on the screen')
    elif what == 'save':
        open(argument, 'w').write(screen())
    else:
        os.write(master, argument.encode())
end = time.monotonic() + 60
while read():
    if time.monotonic() > end:
        fail('the command does not end')
check()
status = os.waitpid(child, 0)[1]
if status != 0 or data.count(b'\033[?25l') != data.count(b'\033[?25h'):
    fail(f'status {status}')
