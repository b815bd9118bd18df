import { readFileSync, type Stats, statSync } from 'node:fs'
import { SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import { parseSecretKeys } from '../../core/secret-keys.ts'
import { secretFault } from './kinds.ts'

const maxBytes = 65_536

/**
 * The secrets of a token file: one a line; empty lines and those that begin with `#` do not count. Whoever reads the
 * file may do everything, so a file that other users can read is refused rather than trusted. `name` is where its path
 * came from. Nothing of its content is ever in a message.
 */
export function readTokenFile(name: string, path: string): readonly string[] {
  const refuse = refusalOf(name, path)
  const secrets = readLines(path, refuse)
  if (secrets.length === 0)
    throw refuse('which holds no secret. Write one a line, such as `openssl rand -hex 32` prints.')
  for (const [index, secret] of secrets.entries()) {
    const fault = secretFault(secret)
    if (fault !== undefined) throw refuse(`whose secret ${index + 1} cannot be used: ${fault}.`)
  }
  return secrets
}

/** The keys of a secret key file, under the same rules: one a line, the first one seals. */
export function readSecretKeyFile(name: string, path: string): readonly string[] {
  const refuse = refusalOf(name, path)
  const keys = readLines(path, refuse)
  if (keys.length === 0)
    throw refuse('which holds no key. Write one a line, such as `openssl rand -base64 32` prints.')
  parseSecretKeys(`${name} (${show(path)})`, keys)
  return keys
}

function refusalOf(name: string, path: string): (why: string) => SignalboxError {
  return (why) =>
    new SignalboxError('invalid_argument', `${name} names ${show(path)}, ${why}`, {
      details: { option: name },
    })
}

function readLines(path: string, refuse: (why: string) => SignalboxError): readonly string[] {
  let stats: Stats
  try {
    stats = statSync(path)
  } catch (error) {
    throw refuse(`which cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
  if (!stats.isFile()) throw refuse('which is not a file.')
  if (stats.size > maxBytes)
    throw refuse(`which is larger than ${maxBytes} bytes, so it is no file of secrets.`)
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
