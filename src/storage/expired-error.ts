/** The error of a job whose last attempt's lease ran out, as JSON text; the same on every engine. */
export const expiredError: string = JSON.stringify({
  code: 'lease_expired',
  message: 'The lease ran out: its worker died, hung or lost the store, and no attempts are left.',
})
