import type { Socket } from 'node:net'

/** Calls `heard` with every line that comes. All that came is heard before the socket closes; errors are not its affair. */
export function hearLines(socket: Socket, heard: (line: string) => void): void {
  let rest = ''
  socket.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) heard(line)
  })
}
