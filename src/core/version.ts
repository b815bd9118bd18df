/** The version of this package. A constant, so that the browser has it too; a test compares it with package.json. */
export const version: string = '0.1.0'
