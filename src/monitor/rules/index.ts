/** The rules of the monitor that stores ask as well: pure functions, so that no engine decides anything by itself. */
export { type EndingMoment, endNotification, endWindows } from './end-notification.ts'
