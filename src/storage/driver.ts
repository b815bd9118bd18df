import { SignalboxError } from '../core/errors.ts'

/** Loads an engine whose driver the user installs; says which package is missing when it is. */
export async function withDriver<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load()
  } catch (error) {
    const { code, message } = error as { readonly code?: unknown; readonly message?: unknown }
    // A file of ours that is missing is a broken package, and must not be blamed on the driver.
    if (code !== 'ERR_MODULE_NOT_FOUND' || !String(message).includes(`package '${name}'`)) throw error
    throw new SignalboxError(
      'engine_unsupported',
      `This engine needs the package "${name}", which is not installed. Run: npm install ${name}`,
      { cause: error },
    )
  }
}
