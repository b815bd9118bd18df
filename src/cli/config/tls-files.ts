import { isSignalboxError } from '../../core/errors.ts'
import type { TlsCheck, TlsOptions } from '../../http/server/index.ts'
import type { ResolvedConfig } from './config.ts'
import { type NamedFile, readNamedFile, readPrivateFile, refuseFile } from './private-file.ts'

/** Certificates that were read and fit together. */
export interface ReadTls extends TlsCheck {
  readonly tls: TlsOptions
}

const maxBytes = 1_048_576

/**
 * Reads the certificates that the settings name, and checks them together; undefined where the server speaks plain HTTP.
 * `serve` calls the reader at its start, and again on SIGHUP.
 */
export async function createTlsReader({
  values,
  sources,
}: Pick<ResolvedConfig, 'values' | 'sources'>): Promise<(() => ReadTls) | undefined> {
  const { tlsCert, tlsKey, tlsClientCa } = values
  if (tlsCert === undefined || tlsKey === undefined) return undefined
  // Imported here, so that other commands do not load a server.
  const { checkTls } = await import('../../http/server/index.ts')
  const cert: NamedFile = { name: sources.tlsCert, path: tlsCert, holds: 'certificate', maxBytes }
  const key: NamedFile = { name: sources.tlsKey, path: tlsKey, holds: 'private key', maxBytes }
  const clientCa: NamedFile | undefined =
    tlsClientCa === undefined
      ? undefined
      : { name: sources.tlsClientCa, path: tlsClientCa, holds: 'list of certificates', maxBytes }
  const files = new Map<unknown, NamedFile | undefined>([
    ['tls.cert', cert],
    ['tls.key', key],
    ['tls.clientCa', clientCa],
  ])
  return () => {
    const tls = {
      cert: readNamedFile(cert),
      key: readPrivateFile(key),
      ...(clientCa === undefined ? {} : { clientCa: readNamedFile(clientCa) }),
    }
    try {
      return { tls, ...checkTls(tls) }
    } catch (error) {
      // The server names the option; the operator needs the name of the file.
      const file = isSignalboxError(error) ? files.get(error.details.option) : undefined
      if (file === undefined) throw error
      const why = (error as Error).message.replace(/^tls\.\w+ /, 'which ').replaceAll('tls.cert', cert.name)
      throw refuseFile(file, why, error)
    }
  }
}
