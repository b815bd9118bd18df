import { readFileSync, type Stats, statSync } from 'node:fs'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import { parseSecretKeys } from '../../core/secret-keys.ts'
import type { TlsCheck, TlsOptions } from '../../http/server/index.ts'
import type { ResolvedConfig } from './config.ts'
import { secretFault } from './value-kinds.ts'

/** A file that a setting names. */
interface NamedFile {
  /** The source of its path: a flag, a variable or a key of the configuration file. */
  readonly name: string
  readonly path: string
  /** The expected content, as text for the operator. */
  readonly holds: string
  readonly maxBytes: number
}

/** The error about a file. It never quotes the content. */
function refuseFile(
  { name, path }: Pick<NamedFile, 'name' | 'path'>,
  why: string,
  cause?: unknown,
): SignalboxError {
  return new SignalboxError('invalid_argument', `${name} names ${show(path)}, ${why}`, {
    cause,
    details: { option: name },
  })
}

/** Reads a file that every user may read. */
function readNamedFile(file: NamedFile): string {
  statFile(file)
  return read(file)
}

/** Reads a file with secrets. Refuses a file that other users can read. */
function readPrivateFile(file: NamedFile): string {
  const stats = statFile(file)
  if ((stats.mode & readableByOthers(stats)) !== 0)
    throw refuseFile(
      file,
      `which other users may read or write (mode ${(stats.mode & 0o777).toString(8)}). Run: chmod 600 ${show(file.path)}`,
    )
  return read(file)
}

function statFile(file: NamedFile): Stats {
  let stats: Stats
  try {
    stats = statSync(file.path)
  } catch (error) {
    throw unreadable(file, error)
  }
  if (!stats.isFile()) throw refuseFile(file, 'which is not a file.')
  if (stats.size > file.maxBytes)
    throw refuseFile(file, `which is larger than ${file.maxBytes} bytes, so it cannot be a ${file.holds}.`)
  return stats
}

function read(file: NamedFile): string {
  try {
    return readFileSync(file.path, 'utf8')
  } catch (error) {
    throw unreadable(file, error)
  }
}

function unreadable(file: NamedFile, error: unknown): SignalboxError {
  return refuseFile(file, `which cannot be read (${(error as NodeJS.ErrnoException).code}).`, error)
}

/**
 * The permissions that a file with secrets must not have. Only the owner may read it. A server that is not root may also
 * read a file of root by its group, as with mounted secrets.
 */
function readableByOthers({ uid }: Stats): number {
  return uid === 0 && process.getuid?.() !== 0 ? 0o037 : 0o077
}

const maxSecretsBytes = 65_536

/** Reads the secrets of a token file: one a line, without empty lines and lines that begin with `#`. */
export function readTokenFile(name: string, path: string): readonly string[] {
  const file = { name, path, holds: 'file of secrets', maxBytes: maxSecretsBytes }
  const secrets = readLines(file)
  if (secrets.length === 0)
    throw refuseFile(file, 'which holds no secret. Write one a line, such as `openssl rand -hex 32` prints.')
  for (const [index, secret] of secrets.entries()) {
    const fault = secretFault(secret)
    if (fault !== undefined) throw refuseFile(file, `whose secret ${index + 1} cannot be used: ${fault}.`)
  }
  return secrets
}

/** Reads the keys of a secret key file in the same way. The first key seals. */
export function readSecretKeyFile(name: string, path: string): readonly string[] {
  const file = { name, path, holds: 'file of secrets', maxBytes: maxSecretsBytes }
  const keys = readLines(file)
  if (keys.length === 0)
    throw refuseFile(file, 'which holds no key. Write one a line, such as `openssl rand -base64 32` prints.')
  parseSecretKeys(`${name} (${show(path)})`, keys)
  return keys
}

function readLines(file: NamedFile): readonly string[] {
  const lines = readPrivateFile(file).split('\n')
  return lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'))
}

/** Certificates that fit together. */
export interface ReadTls extends TlsCheck {
  readonly tls: TlsOptions
}

const maxTlsBytes = 1_048_576

/**
 * Creates a function that reads and checks the certificates of the settings; undefined: the server uses plain HTTP.
 * `serve` calls it at its start, and again on SIGHUP.
 */
export async function createTlsReader({
  values,
  sources,
}: Pick<ResolvedConfig, 'values' | 'sources'>): Promise<(() => ReadTls) | undefined> {
  const { tlsCert, tlsKey, tlsClientCa } = values
  if (tlsCert === undefined || tlsKey === undefined) return undefined
  // Imported here, so that other commands do not load a server.
  const { checkTls } = await import('../../http/server/index.ts')
  const fileOf = (name: string, path: string, holds: string) => ({ name, path, holds, maxBytes: maxTlsBytes })
  const cert = fileOf(sources.tlsCert, tlsCert, 'certificate')
  const key = fileOf(sources.tlsKey, tlsKey, 'private key')
  const clientCa = tlsClientCa && fileOf(sources.tlsClientCa, tlsClientCa, 'list of certificates')
  const files = new Map<unknown, NamedFile | '' | undefined>([
    ['tls.cert', cert],
    ['tls.key', key],
    ['tls.clientCa', clientCa],
  ])
  return () => {
    const tls = {
      cert: readNamedFile(cert),
      key: readPrivateFile(key),
      ...(clientCa && { clientCa: readNamedFile(clientCa) }),
    }
    try {
      return { tls, ...checkTls(tls) }
    } catch (error) {
      // The server names the option; the operator needs the name of the file.
      const file = isSignalboxError(error) ? files.get(error.details.option) : undefined
      if (!file) throw error
      const why = (error as Error).message.replace(/^tls\.\w+ /, 'which ').replaceAll('tls.cert', cert.name)
      throw refuseFile(file, why, error)
    }
  }
}
