//! The guide has one test, which is an integration test.
