import { readFileSync, type Stats, statSync } from 'node:fs'
import { SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import { secretFault } from './kinds.ts'

const maxBytes = 65_536

/**
 * The secrets of a token file: one a line; empty lines and those that begin with `#` do not count. Whoever reads the
 * file may do everything, so a file that other users can read is refused rather than trusted. `name` is where its path
 * came from. Nothing of its content is ever in a message.
 */
export function readTokenFile(name: string, path: string): readonly string[] {
  const refuse = (why: string) =>
    new SignalboxError('invalid_argument', `${name} names ${show(path)}, ${why}`, {
      details: { option: name },
    })
  const secrets = readLines(path, refuse)
  if (secrets.length === 0)
    throw refuse('which holds no secret. Write one a line, such as `openssl rand -hex 32` prints.')
  for (const [index, secret] of secrets.entries()) {
    const fault = secretFault(secret)
    if (fault !== undefined) throw refuse(`whose secret ${index + 1} cannot be used: ${fault}.`)
  }
  return secrets
}

function readLines(path: string, refuse: (why: string) => SignalboxError): readonly string[] {
  let stats: Stats
  try {
    stats = statSync(path)
  } catch (error) {
    throw refuse(`which cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
  if (!stats.isFile()) throw refuse('which is not a file.')
  if (stats.size > maxBytes) throw refuse(`which is larger than ${maxBytes} bytes, so it is no token file.`)
  if ((stats.mode & readableByOthers(stats)) !== 0)
    throw refuse(
      `which other users may read or write (mode ${(stats.mode & 0o777).toString(8)}). Run: chmod 600 ${show(path)}`,
    )
  try {
    const lines = readFileSync(path, 'utf8').split('\n')
    return lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'))
  } catch (error) {
    throw refuse(`which cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
}

/** A file of root's reaches a server that is not root by its group alone, as mounted secrets do; else nobody shares it. */
function readableByOthers({ uid }: Stats): number {
  return uid === 0 && process.getuid?.() !== 0 ? 0o037 : 0o077
}
