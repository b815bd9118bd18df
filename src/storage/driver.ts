import { SignalboxError } from '../core/errors.ts'

/** Loads an engine whose driver the user installs. If the driver is missing, the error names its package. */
export async function withDriver<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load()
  } catch (error) {
    const { code, message } = error as { readonly code?: unknown; readonly message?: unknown }
    // A missing file of Signalbox means a broken package; the driver must not be blamed for it.
    if (code !== 'ERR_MODULE_NOT_FOUND' || !String(message).includes(`package '${name}'`)) throw error
    throw new SignalboxError(
      'engine_unsupported',
      `This engine needs the package "${name}", which is not installed. Run: npm install ${name}`,
      { cause: error },
    )
  }
}
