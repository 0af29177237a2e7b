export { eventsPage } from './events-page.js';
